"""`leasefs completion`."""

from __future__ import annotations

import click

from leasefs_cli.printing import say
from leasefs_cli.root import COMPLETE_VARIABLE, root
from leasefs_cli.teaching import teaching_command


@teaching_command(
    "completion",
    examples=[
        ('eval "$(leasefs completion bash)"', "in ~/.bashrc"),
        ('eval "$(leasefs completion zsh)"', "in ~/.zshrc, after compinit"),
        ("leasefs completion fish | source", "in ~/.config/fish/config.fish"),
    ],
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the script that makes SHELL complete commands and options of leasefs."""
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    if completion is None:
        raise click.BadParameter(f"click knows no completion for {shell}", param_hint="SHELL")
    say(completion(root, {}, "leasefs", COMPLETE_VARIABLE).source())
