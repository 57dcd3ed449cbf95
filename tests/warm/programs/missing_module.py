# call: -m no_such_module
# call: -m no_such.module
# call: -m package.without_main
# exit: 1
