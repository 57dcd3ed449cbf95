# Convert the commands of `make` to compile_commands.json, from which clangd and other tools learn how a file is
# compiled (https://clang.llvm.org/docs/JSONCompilationDatabase.html). DIRECTORY is the working directory of make.

function quoted(text) {
    gsub(/[\\"]/, "\\\\&", text)
    return "\"" text "\""
}

BEGIN { printf "[" }

# The sources are the last words of a command. The agent's command has several, and each gets an entry of its own.
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
