// Replaces terngrad_train in the test of scripts/hosts/run_hosts.sh: ranks run common steps and agree when to stop.
// Every rank then writes its number of steps to saved-RANK in --train_dir.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

namespace {

volatile std::sig_atomic_t g_signal = 0;

void note(int signal) {
  // As in terngrad_train, a second signal ends the process.
  g_signal = signal;
  std::signal(signal, SIG_DFL);
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::map<std::string, std::string> parse(int argc, char** argv) {
  std::map<std::string, std::string> options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) {
      options[word.substr(0, equals)] = word.substr(equals + 1);
    } else if (i + 1 < argc && std::string(argv[i + 1]).rfind("--", 0) != 0) {
      options[word] = argv[++i];
    } else {
      options[word] = "true";
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  auto options = parse(argc, argv);
  if (options.count("--version") != 0) {
    // A file may set another version for this host.
    std::ifstream of_host(std::string(argv[0]) + ".version." + [] {
      char name[256] = {};
      gethostname(name, sizeof(name) - 1);
      const std::string host = name;
      return host.substr(host.rfind('-') + 1);
    }());
    std::string version = "mpi_steps 1.0";
    std::getline(of_host, version);
    std::puts(version.c_str());
    return 0;
  }
  if (options.count("--help") != 0) {
    std::puts(
        "Run:\n  --max_steps N (=100)    steps (also\n                          --num_steps)\n  --note TEXT (='')      "
        " to print\n"
        "  --data_dir TEXT (='')   data\n  --train_dir TEXT (='')  folder\n  --resume [=true|false]  continue\n"
        "  --help                  print this\n");
    return 0;
  }
  std::signal(SIGTERM, note);
  std::signal(SIGINT, note);
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::string folder = options["--train_dir"];
  const std::string saved = folder + "/saved-" + std::to_string(rank);
  if (rank == 0 && std::system(("mkdir -p '" + folder + "'").c_str()) != 0) return 1;
  int step = 0;
  if (options.count("--resume") != 0) std::ifstream(saved) >> step;
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  std::printf("rank %d of %d on %s: data '%s' note '%s' devices '%s' variable '%s' from step %d process %d\n", rank,
              size, host, options["--data_dir"].c_str(), options["--note"].c_str(),
              variable("CUDA_VISIBLE_DEVICES").c_str(), variable("TERNGRAD_X").c_str(), step,
              static_cast<int>(getpid()));
  std::fflush(stdout);
  const int max_steps = std::atoi(options["--max_steps"].c_str());
  int stop = 0;
  while (step < max_steps && stop == 0) {
    usleep(20000);
    const int asked = g_signal;
    MPI_Allreduce(&asked, &stop, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    ++step;
    if (rank == 0) std::printf("step %d\n", step);
    std::fflush(stdout);
  }
  // Ranks take different times to save.
  if (stop != 0) usleep(static_cast<useconds_t>(500000 * rank));
  std::ofstream(saved) << step << "\n";
  MPI_Finalize();
  return stop == 0 ? 0 : 128 + stop;
}
