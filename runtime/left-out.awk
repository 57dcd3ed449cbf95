# Makes a linker script of what `ld --print-gc-sections` prints of a program that begins with container/child/finish.h: code
# that is not needed there comes first in the static program, up to left_out_end, and a container's process does not
# keep it (sandbox/detach.c). Constants stay, for a plan may point to any. What is not in the list stays as well.
BEGIN {
    print "SECTIONS\n{\n    .text.left_out :\n    {"
}

match($0, /removing unused section '\.text[^']*' in file '[^']*'/) {
    split($0, part, "'")
    file = part[4]
    sub(/\(/, ":", file) # archive(member)
    sub(/\)$/, "", file)
    printf "        \"%s\"(%s)\n", file, part[2]
}

END {
    print "    }\n    HIDDEN(left_out_end = .);\n}\nINSERT BEFORE .text;"
}
