// The `easydel` command: its subcommands and its exit codes.
#pragma once

namespace easydel::cli {

// 0 when all went well, 1 for a failure, 2 for a usage error; the message is on standard error.
int run(int argc, char** argv);

}  // namespace easydel::cli
