# call: @
# call: -c @text
# call 3.10: -X dev @
# call: -
# stdin: @text
# exit: 1
"""The traceback of an exception without a handler."""


def f(x):
    return g(x) + 1


def g(x):
    return {}[x] / 0


try:
    f("first")
except KeyError as error:
    raise ValueError("sécond") from error
