#include "easydel/models/mbart/model.h"
