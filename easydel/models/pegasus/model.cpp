#include "easydel/models/pegasus/model.h"
