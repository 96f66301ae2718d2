"""Measured numbers beside the virtual device's.

python test/truth [ROWS]
python test/truth mindspeed --checkout DIR [ROWS]
"""

import sys

import measured
import mindspeed_rows

if __name__ == "__main__":
    if sys.argv[1:2] == ["mindspeed"]:
        sys.exit(mindspeed_rows.main(sys.argv[2:]))
    measured.main()
