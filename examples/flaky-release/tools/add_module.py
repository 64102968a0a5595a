#!/usr/bin/env python3
"""Install a module of the vendor folder into site/."""

import shutil
import sys
from pathlib import Path

source = Path("vendor") / f"{sys.argv[1]}.py"
Path("site").mkdir(exist_ok=True)
shutil.copy(source, "site")
print(f"installed {sys.argv[1]}")
