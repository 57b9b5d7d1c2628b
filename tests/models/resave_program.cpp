// usage: resave_program FROM TO: loads a model by what its config.json names, and saves it.
#include <iostream>

#include "easydel/infra/auto_model.h"

int main(int argc, char** argv) {
  using namespace easydel;
  if (argc != 3) return 2;
  try {
    AutoModelForAnyTask::from_pretrained(argv[1], {.verbose = false})->save_pretrained(argv[2], {.verbose = false});
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
