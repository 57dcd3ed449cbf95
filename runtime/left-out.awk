# Makes a linker script of what `ld --print-gc-sections` prints of a program that begins with container/finish.h: what
# that does not need is moved to two places of the static program, and a container's process keeps neither
# (sandbox/detach.c). One is from the beginning (headers, relocations) to left_out_text_end, the other from
# left_out_rodata_start to left_out_relro_end. A section that is not in the list stays where it is kept.
match($0, /removing unused section '[^']*' in file '[^']*'/) {
    split($0, part, "'")
    section = part[2]
    file = part[4]
    sub(/\(/, ":", file) # archive(member)
    sub(/\)$/, "", file)
    for (kind in place)
        if (section == kind || index(section, kind ".") == 1)
            input[kind] = input[kind] "        \"" file "\"(" section ")\n"
}

BEGIN {
    place[".text"] = "BEFORE .text"
    place[".rodata"] = "AFTER .eh_frame" # for no unwinder: it may stay, but not between
    place[".data.rel.ro"] = "BEFORE .data.rel.ro"
    name[".text"] = "text"
    name[".rodata"] = "rodata"
    name[".data.rel.ro"] = "relro"
}

END {
    for (kind in place) {
        printf "SECTIONS\n{\n    %s.left_out :\n    {\n        HIDDEN(left_out_%s_start = .);\n", kind, name[kind]
        printf "%s        HIDDEN(left_out_%s_end = .);\n    }\n}\nINSERT %s;\n\n", input[kind], name[kind], place[kind]
    }
    print "ASSERT(left_out_text_end <= left_out_rodata_start, \"code has to come before constants, as GNU ld puts it\")"
}
