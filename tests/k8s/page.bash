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

# follow HEADING [NUMBER]: run a block of commands as the page has it, in this shell's functions and variables.
follow() {
    block "$1" sh "${2:-1}" >commands
    # shellcheck disable=SC1091 # of the page
    source ./commands
}
