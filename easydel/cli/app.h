// The `easydel` command: its subcommands and its exit codes.
#pragma once

namespace easydel::cli {

// Returns 0 on success, 1 on failure, 2 on a usage error; the message goes to standard error.
int run(int argc, char** argv);

}  // namespace easydel::cli
