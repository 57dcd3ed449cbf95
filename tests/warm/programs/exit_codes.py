# call: -c "import sys; sys.exit(3)"
# exit: 3
