#include "easydel/models/mt5/model.h"
