"""What `leasefs doctor` looks at. Nothing is started; only redirects and what dead mounts left can be repaired."""

from __future__ import annotations
