# Makes compile_commands.json of the commands that make would run: clangd and other tools read from it how a file is
# compiled (https://clang.llvm.org/docs/JSONCompilationDatabase.html). DIRECTORY is where make runs.

function quoted(text) {
    gsub(/[\\"]/, "\\\\&", text)
    return "\"" text "\""
}

BEGIN { printf "[" }

# The sources are the last words of a command. The agent has several in one, and each gets a command of its own.
/ -o [^ ]+( .*)?\.c($| )/ {
    command = $1
    for (i = 2; i <= NF; i++)
        if ($(i - 1) != "-o" && $i !~ /^(-o|-c|-shared|[a-z].*\.[cS])$/) command = command " " $i
    for (i = 1; i <= NF; i++)
        if ($i ~ /^[a-z].*\.c$/) {
            printf "%s\n  {\"directory\": %s, \"file\": %s, \"command\": %s}", separator, quoted(DIRECTORY), quoted($i),
                quoted(command " -c " $i)
            separator = ","
        }
}

END { print "\n]" }
