// tandem: the command line. Here commands are only found; each has a file of its own.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "command.hpp"
#include "tandem/tandem.h"
#include "terminal.hpp"

namespace {

std::string command_names(const CLI::App& app) {
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) names += (names.empty() ? "" : ", ") + command->get_name();
  return names;
}

int report(const CLI::App& app, const std::string& sentence) {
  std::string name = "tandem";
  for (const CLI::App* command = &app; !command->get_subcommands().empty();) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  fmt::print(stderr, "{}: {}\n", name, tandem::cli::printable(sentence));
  return tandem::cli::kExitError;
}

int run(CLI::App& app, int argc, char** argv) {
  int exit_code = tandem::cli::kExitOk;
  app.set_version_flag("--version", std::string("tandem ") + tandem_version());
  app.require_subcommand(1);
  tandem::cli::add_run(app, exit_code);
  tandem::cli::add_check(app, exit_code);
  tandem::cli::add_bench(app, exit_code);
  tandem::cli::add_explain(app, exit_code);
  tandem::cli::add_compile(app, exit_code);
  tandem::cli::add_cache(app, exit_code);
  tandem::cli::add_timeline(app, exit_code);
  tandem::cli::add_doctor(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // help and version
    if (app.get_subcommands().empty() && argc > 1 && argv[1][0] != '-')
      return report(app, fmt::format("there is no command '{}'; the commands are {}", argv[1], command_names(app)));
    return report(app, fmt::format("{} (--help lists what is understood)", error.what()));
  } catch (const std::bad_alloc&) {
    return report(app, "the host is out of memory; choose a smaller problem");
  } catch (const std::exception& error) {
    return report(app, error.what());
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    CLI::App app("Exact attention for NVIDIA Hopper, and on any CPU.", "tandem");
    return run(app, argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tandem: %s\n", error.what());
    return tandem::cli::kExitError;
  }
}
