// One object from a YAML file to a trained and evaluated model.
#pragma once

#include "easydel/elarge/elarge_model.h"
