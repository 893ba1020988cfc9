// Replaces a distributed training in tests of scripts: mpi_transfer BYTES All-reduces BYTES and checks the sums, then
// sends BYTES from rank 0 to rank 1 and one byte back. Rank 0 prints the seconds of this, and of the fastest of ten
// round trips of one byte.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

/// Seconds on rank 0 to send `num_bytes` to rank 1 and receive a byte.
double round_trip(int rank, std::vector<char>& buffer, int num_bytes) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  if (rank == 0) {
    MPI_Send(buffer.data(), num_bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(buffer.data(), 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else if (rank == 1) {
    MPI_Recv(buffer.data(), num_bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(buffer.data(), 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
  }
  return MPI_Wtime() - start;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int num_bytes = argc > 1 ? std::atoi(argv[1]) : 0;
  std::vector<float> values(static_cast<std::size_t>(num_bytes) / sizeof(float), static_cast<float>(rank + 1));
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  const auto sum = static_cast<float>(size * (size + 1) / 2);
  if (std::any_of(values.begin(), values.end(), [sum](float value) { return value != sum; })) {
    std::fprintf(stderr, "rank %d: wrong sum\n", rank);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  if (size > 1) {
    std::vector<char> buffer(static_cast<std::size_t>(std::max(num_bytes, 1)));
    const double seconds = round_trip(rank, buffer, num_bytes);
    double shortest = round_trip(rank, buffer, 1);
    for (int i = 1; i < 10; ++i) shortest = std::min(shortest, round_trip(rank, buffer, 1));
    if (rank == 0) std::printf("%.6f %.6f\n", seconds, shortest);
  }
  MPI_Finalize();
  return 0;
}
