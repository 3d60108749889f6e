"""How long the kernel may answer from its own caches, in seconds.

Where the directory is watched, a change made elsewhere ends what the kernel believes within some
milliseconds, and the long times only bound what no event tells of: stores through a mapping made beneath
the mount, and a link made in a directory that nobody looked into. Where nothing watches (another file
system inside the tree, no watches left, a file with several names) a change stays unseen for a second.
"""

from __future__ import annotations

SURE_S = 3600.0
UNSURE_S = 1.0
