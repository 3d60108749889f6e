"""What `leasefs doctor` looks at. Nothing here repairs or starts anything."""

from __future__ import annotations
