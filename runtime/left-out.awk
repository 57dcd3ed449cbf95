# Convert the output of `ld --print-gc-sections` to a linker script. The output belongs to a program that begins with
# container/child/finish.h. Code that this program does not need comes first in the static program, up to left_out_end.
# A container's process unmaps it (sandbox/detach.c). Sections that are not in the list stay, and also constants,
# because a plan may point to any of them, except the agent. It comes before the others, up to left_out_constants_end.
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
    print "SECTIONS\n{\n    .rodata.left_out :\n    {\n        *(.rodata.agent)\n    }"
    print "    HIDDEN(left_out_constants_end = .);\n}\nINSERT BEFORE .rodata;"
}
