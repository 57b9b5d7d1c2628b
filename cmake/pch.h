// The lean set of torch headers. torch/torch.h would cost 16 s a file, and every file pays for the templates of headers
// that it does not need: those that derive a torch::autograd::Function include its header themselves.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
