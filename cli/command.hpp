// The commands. Each adds itself to the parser; when its name is on the command line its work runs, and leaves the exit code:
// 0 all is well, 1 a check failed. What cannot be done at all is a Failure, which main turns into a sentence and 2.
#pragma once

namespace CLI {
class App;
}

namespace tandem::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitCheckFailed = 1;
inline constexpr int kExitError = 2;

void add_run(CLI::App& app, int& exit_code);
void add_check(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_explain(CLI::App& app, int& exit_code);
void add_compile(CLI::App& app, int& exit_code);
void add_cache(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);
void add_timeline(CLI::App& app, int& exit_code);

}  // namespace tandem::cli
