# runtime.json, the administrator's decision about annotations, in the environment of a test: pysbx-runtime(8).

# Print the path of the file that applies to this user.
policy_file() {
    if is_rootless; then
        echo "$HOME/.config/pysbx-runtime/runtime.json"
    else
        echo /etc/pysbx-runtime/runtime.json
    fi
}

# Write the file. It lasts until the end of the test.
configure_policy() {
    local file
    file=$(policy_file)
    install -d -m 0755 "${file%/*}"
    rm -rf "$file"
    (umask 022 && echo "$1" >"$file")
}

allow_annotations() {
    local list
    printf -v list ', "%s"' "$@"
    configure_policy "{\"allowAnnotations\": [${list#, }]}"
}

# Called by clean_up.
remove_policy() {
    local file
    file=$(policy_file)
    [[ -d ${file%/*} ]] || return 0
    chmod 0755 "${file%/*}"
    rm -rf "$file"
}
