"""leasefs: glob leases enforced by the file system.

Which part may import which: ``mount | service`` -> ``client | vcs | store`` -> ``core``. ``core`` is
pure and holds the rules; start reading there, at ``leasefs.core.ledger``.
"""

from __future__ import annotations

__version__ = "0.1.0"
