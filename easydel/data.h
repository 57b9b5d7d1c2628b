// Data sets: files, mixtures, packing, and the batches that training reads.
#pragma once

#include "easydel/data/dataset.h"
#include "easydel/data/loader.h"
#include "easydel/data/order/walk.h"
#include "easydel/data/rows/preference.h"
#include "easydel/data/rows/sft.h"
