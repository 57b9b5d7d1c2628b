#include "easydel/models/roberta/model.h"
