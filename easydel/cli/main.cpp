#include "easydel/cli/app.h"

int main(int argc, char** argv) { return easydel::cli::run(argc, argv); }
