#include "easydel/models/mbart/config.h"
