// One function per subcommand; it adds the subcommand to the app, which runs it in a callback.
#pragma once

namespace CLI {
class App;
}

namespace easydel::cli {

// Thrown by a command that finished but must exit with a nonzero status: 130 after Ctrl-C.
struct ExitStatus {
  int value;
};

void add_bench_command(CLI::App& app);
void add_bench_moe_command(CLI::App& bench);
void add_bench_serve_command(CLI::App& bench);
void add_bench_train_command(CLI::App& bench);
void add_chat_command(CLI::App& app);
void add_classify_command(CLI::App& app);
void add_convert_command(CLI::App& app);
void add_dashboard_command(CLI::App& app);
void add_demo_command(CLI::App& app);
void add_demo_rl_command(CLI::App& demo);
void add_doctor_command(CLI::App& app);
void add_download_command(CLI::App& app);
void add_elarge_command(CLI::App& app);
void add_embed_command(CLI::App& app);
void add_eval_command(CLI::App& app);
void add_forward_command(CLI::App& app);
void add_generate_command(CLI::App& app);
void add_info_command(CLI::App& app);
void add_inspect_command(CLI::App& app);
void add_lora_command(CLI::App& app);
void add_models_command(CLI::App& app);
void add_serve_command(CLI::App& app);
void add_quantize_command(CLI::App& app);
void add_tokenize_command(CLI::App& app);
void add_report_command(CLI::App& app);
void add_train_command(CLI::App& app);
void add_transcribe_command(CLI::App& app);
void add_tokenizer_train_command(CLI::App& app);

}  // namespace easydel::cli
