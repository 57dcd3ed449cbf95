# call: @
# call: -c @text
# call: -
# stdin: @text
# exit: 1
"""A program that cannot be compiled."""
print("never")
def f(:
    pass
