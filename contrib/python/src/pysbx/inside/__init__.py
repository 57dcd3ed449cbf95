"""What runs inside a sandbox, there under the name pysbx_inside; the host imports nothing but wire from it.

Code of the user shares the process with it, so nothing it says is believed by the host.
"""
