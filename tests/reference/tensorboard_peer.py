"""What TensorBoard itself reads from a directory of event files, as JSON: {"scalars": {tag: [[step, value], …]}, "texts":
{tag: [[step, text], …]}}. usage: tensorboard_peer.py DIRECTORY"""

import json
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0})
events.Reload()
tags = events.Tags()
scalars = {tag: [[event.step, event.value] for event in events.Scalars(tag)] for tag in tags["scalars"]}
texts = {
    tag: [[event.step, tensor_util.make_ndarray(event.tensor_proto)[0].decode()] for event in events.Tensors(tag)]
    for tag in tags["tensors"]
}
print(json.dumps({"scalars": scalars, "texts": texts}))
