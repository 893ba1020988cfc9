// The mean of four workers' gradients, exchanged as ternary codes: prints message sizes and the error of the mean.
//
//   cc -std=c99 mean.c $(pkg-config --cflags --libs terngrad) -lm -o mean && ./mean
//
// All workers are in this process, and bytes are counted as if each worker were a process. To connect processes, pass a
// communicator to tg_exchange_create (tg_communicator_custom).
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <terngrad.h>

enum { NUM_WORKERS = 4, ROWS = 300, COLUMNS = 100, COUNT = ROWS * COLUMNS };

static float gradients[NUM_WORKERS][COUNT];
static float mean[COUNT];

// Exits with the library's error message if a call has failed.
static void check(tg_status status) {
  if (status == TG_OK) return;
  fprintf(stderr, "mean: %s: %s\n", tg_status_name(status), tg_last_error());
  exit(1);
}

static tg_array array_of(float* values) {
  tg_array array = {NULL, COUNT, TG_FP32, TG_CPU, 0, 0};
  array.data = values;
  return array;
}

// Approximately standard normal: the sum of twelve uniform numbers, minus its mean.
static float noise(unsigned* state) {
  float sum = -6;
  for (int i = 0; i < 12; ++i) {
    *state = *state * 1664525u + 1013904223u;
    sum += (float)(*state >> 8) / 16777216.0f;
  }
  return sum;
}

// As in training, gradients consist of a common signal and independent noise per worker.
static void fill_gradients(void) {
  unsigned state = 1;
  for (int i = 0; i < COUNT; ++i) {
    const float signal = noise(&state);
    for (int worker = 0; worker < NUM_WORKERS; ++worker) gradients[worker][i] = 0.01f * (signal + 0.5f * noise(&state));
  }
}

// |mean - m| / |m| with the exact mean m.
static double relative_error(void) {
  double error = 0;
  double norm = 0;
  for (int i = 0; i < COUNT; ++i) {
    double exact = 0;
    for (int worker = 0; worker < NUM_WORKERS; ++worker) exact += (double)gradients[worker][i] / NUM_WORKERS;
    error += (mean[i] - exact) * (mean[i] - exact);
    norm += exact * exact;
  }
  return sqrt(error / norm);
}

// Exchanges one step with a codec, and prints bytes and error.
static void exchange(const char* options) {
  tg_layout* layout = NULL;
  tg_plan* plan = NULL;
  tg_exchange* made = NULL;
  const int64_t shape[] = {ROWS, COLUMNS};
  check(tg_layout_create(&layout));
  check(tg_layout_add(layout, "dense/weights", shape, 2, 0, NULL));
  check(tg_plan_create(layout, NUM_WORKERS, options, &plan));
  check(tg_exchange_create(plan, NULL, "seed=1", NULL, &made));

  tg_array of_workers[NUM_WORKERS];
  for (int worker = 0; worker < NUM_WORKERS; ++worker) of_workers[worker] = array_of(gradients[worker]);
  const tg_array out = array_of(mean);
  const int32_t tensor = 0;
  tg_report report;
  report.struct_size = sizeof(report);
  check(tg_exchange_begin(made, 0));
  check(tg_exchange_part(made, &tensor, 1, of_workers, &out, NULL));
  check(tg_exchange_finish(made, &report));
  printf("%-30s each worker sent %7lld bytes; relative error of the mean %.4f\n", options,
         (long long)(report.sent_bytes / NUM_WORKERS), relative_error());

  tg_exchange_destroy(made);
  tg_plan_destroy(plan);
  tg_layout_destroy(layout);
}

int main(void) {
  printf("terngrad %s\n", tg_version());
  fill_gradients();
  exchange("codec=fp32");
  exchange("codec=qsgd bits=8");
  exchange("codec=ternary");
  exchange("codec=ternary clip_factor=2.5");
  return 0;
}
