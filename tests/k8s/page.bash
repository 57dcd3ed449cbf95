# The page "Run it on Kubernetes", for tests that follow it word by word.

PAGE=$BATS_TEST_DIRNAME/../../contrib/docs/pages/how-to/kubernetes.md

# block HEADING LANGUAGE [NUMBER]: print a block of code below a heading.
block() {
    awk -v heading="$1" -v fence="\`\`\`$2" -v number="${3:-1}" '
        /^#+ / && !code { here = $0; sub(/^#+ /, "", here) }
        /^```$/ { code = 0 }
        code { print }
        here == heading && $0 == fence && ++count == number { code = 1 }' "$PAGE" | grep . ||
        { echo "the page has no block $2 ${3:-1} below '$1'" >&2; return 1; }
}

# Make the image of packages by the commands on standard input, those of the page. pip uses the wheels of the service's
# image, because there is no network here. COMMAND adds packages of a test: make_packages [COMMAND]
make_packages() {
    local -x PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_FIND_LINKS
    PIP_FIND_LINKS=$(realpath "${BUILD:-$TESTS/../build}"/image/wheels-*)
    cat >recipe
    [[ -z ${1:-} ]] || sed -i "/pip install/a $1" recipe
    # shellcheck disable=SC1091 # of the page
    source ./recipe >said
    buildah rm --all >/dev/null
}

# follow HEADING [NUMBER]: run a block of commands as the page has it, in this shell's functions and variables.
follow() {
    block "$1" sh "${2:-1}" >commands
    # shellcheck disable=SC1091 # of the page
    source ./commands
}
