#include "easydel/models/xlm_roberta/model.h"
