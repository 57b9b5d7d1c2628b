// Quantized weights, and calibration.
#pragma once

#include "easydel/quantization/calibrate.h"
#include "easydel/quantization/quantize.h"
