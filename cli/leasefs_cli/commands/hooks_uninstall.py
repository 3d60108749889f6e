"""`leasefs hooks uninstall`."""

from __future__ import annotations

from leasefs.core.errors import InvalidRequest
from leasefs.vcs.errors import VcsError
from leasefs.vcs.hooks import hooks_place, uninstall
from leasefs_cli.exit_codes import DONE, UNEXPECTED
from leasefs_cli.printing import say_json, tell
from leasefs_cli.teaching import json_option, teaching_command


@teaching_command(
    "uninstall",
    own_codes=[("1", "a hook of yours could not be put back in its place; it says which")],
    examples=[("leasefs hooks uninstall", "also from a shared directory that they were put in")],
)
@json_option
def command(as_json: bool) -> int:
    """Take our hooks out of this clone; done twice, it changes nothing.

    What stood there before is there again, byte for byte, with what you changed in it since.
    """
    try:
        place = hooks_place()
        left = uninstall(place)
    except VcsError as error:
        raise InvalidRequest(str(error)) from error
    for words in left:
        tell(words)
    if as_json:
        say_json({"directory": place.directory, "left": left})
    return UNEXPECTED if left else DONE
