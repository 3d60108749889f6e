"""What `leasefs doctor` looks at. Nothing is started; only redirects can be repaired."""

from __future__ import annotations
