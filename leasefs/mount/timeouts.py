"""How long the kernel may answer from its own caches, in seconds.

Others change the lower tree beneath us (another agent's mount, a host tool), and nothing tells the
kernel so yet: a second is what a change made elsewhere may stay unseen.
"""

from __future__ import annotations

ENTRY_S = 1.0
ATTRIBUTES_S = 1.0
NEGATIVE_S = 1.0
