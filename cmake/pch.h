// The lean set of torch headers. torch/torch.h would cost 16 s a file.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
