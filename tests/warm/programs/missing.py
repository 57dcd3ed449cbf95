# call: no-such-file.py
# exit: 2
