"""The one exception that means: the caller's input breaks a rule."""


class InputError(ValueError):
    """Bad input: the message gives the rule, the value and the way out, in one line.

    The command line prints it and exits with 2; anything else is a bug and shows its traceback.
    """
