#include "easydel/models/umt5/model.h"
