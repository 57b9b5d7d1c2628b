"""Does with huggingface_hub what a test asks for, and prints one line of JSON.

    hub_peer.py snapshot REPO '{"revision": "main", ...}'     the arguments of snapshot_download
    hub_peer.py file REPO NAME '{...}'                        the arguments of hf_hub_download
"""

import json
import sys

import huggingface_hub


def main():
    try:
        if sys.argv[1] == "snapshot":
            path = huggingface_hub.snapshot_download(sys.argv[2], **json.loads(sys.argv[3]))
        else:
            path = huggingface_hub.hf_hub_download(sys.argv[2], sys.argv[3], **json.loads(sys.argv[4]))
        print(json.dumps({"path": path}))
    except Exception as error:
        print(json.dumps({"error": type(error).__name__, "message": str(error)}))


main()
