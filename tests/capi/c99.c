// The C API from C99: encodes messages, averages them, and compares with an exchange over callbacks: equal bits.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capi/terngrad.h"

enum { NUM_WORKERS = 2, COUNT = 5000 };

static float gradients[NUM_WORKERS][COUNT];
static float by_hand[COUNT];
static float exchanged[COUNT];
static float scalers[NUM_WORKERS][1];

static void check(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "c99: %s: %s\n", what, tg_last_error());
  exit(1);
}
#define CHECK(condition) check((condition), #condition)
#define OK(call) check((call) == TG_OK, #call)

static tg_array array_of(float* values) {
  tg_array array = {.count = COUNT, .type = TG_FP32, .device_type = TG_CPU};
  array.data = values;
  return array;
}

static void aggregate_by_hand(const tg_plan* plan) {
  tg_encoder* encoders[NUM_WORKERS] = {NULL};
  const uint8_t* messages[NUM_WORKERS];
  int64_t bytes[NUM_WORKERS];
  for (int worker = 0; worker < NUM_WORKERS; ++worker) {
    const tg_array gradient = array_of(gradients[worker]);
    OK(tg_encoder_create(plan, worker, "seed=3", &encoders[worker]));
    OK(tg_encoder_measure(encoders[worker], &gradient, 1, 7, NULL));
    OK(tg_encoder_scalers(encoders[worker], scalers[worker], 1));
  }
  for (int worker = 0; worker < NUM_WORKERS; ++worker) {
    const tg_array gradient = array_of(gradients[worker]);
    OK(tg_encoder_set_scalers(encoders[worker], 1 - worker, scalers[1 - worker], 1));
    OK(tg_encoder_encode(encoders[worker], &gradient, 1, &messages[worker], &bytes[worker], NULL));
    CHECK(bytes[worker] < COUNT);
    tg_message_info info = {.struct_size = sizeof(info)};
    OK(tg_message_inspect(messages[worker], bytes[worker], &info, NULL, 0));
    CHECK(info.worker == (uint32_t)worker && info.step == 7);
  }
  const tg_array mean = array_of(by_hand);
  OK(tg_aggregate(plan, 0, 7, messages, bytes, NUM_WORKERS, &mean, 1, NULL));
  for (int worker = 0; worker < NUM_WORKERS; ++worker) tg_encoder_destroy(encoders[worker]);
}

// Callbacks of a transport with a single rank, which moves no data.
static int gather(void* self, const uint8_t* message, int64_t bytes, tg_incoming* all) {
  (void)self;
  uint8_t* const place = tg_incoming_add(all, bytes);
  if (place == NULL) return 1;
  memcpy(place, message, (size_t)bytes);
  return 0;
}
static int scatter(void* self, const uint8_t* const* messages, const int64_t* bytes, tg_incoming* incoming) {
  return gather(self, messages[0], bytes[0], incoming);
}
static int sum(void* self, uint64_t* values, int64_t n) {
  (void)self, (void)values, (void)n;
  return 0;
}
static int max(void* self, uint32_t* values, int64_t n) {
  (void)self, (void)values, (void)n;
  return 0;
}
static void release(void* self) { ++*(int*)self; }

static int count_states(void* self, const tg_named_array* state) {
  CHECK(strcmp(state->name, "tensor") == 0 && state->values.count == COUNT);
  ++*(int*)self;
  return 0;
}

int main(void) {
  CHECK(tg_abi_version() >= TG_ABI_VERSION);
  for (int i = 0; i < COUNT; ++i) {
    gradients[0][i] = (float)(i % 17 - 8);
    gradients[1][i] = (float)(i % 23 - 11);
  }
  const int64_t shape[] = {COUNT};
  tg_layout* layout = NULL;
  tg_plan* plan = NULL;
  OK(tg_layout_create(&layout));
  OK(tg_layout_add(layout, "tensor", shape, 1, 0, NULL));
  OK(tg_plan_create(layout, NUM_WORKERS, "codec=ternary clip_factor=2.5", &plan));
  tg_layout_destroy(layout);
  aggregate_by_hand(plan);

  int num_released = 0;
  const tg_communicator_ops ops = {.struct_size = sizeof(ops),
                                   .rank = 0,
                                   .size = 1,
                                   .self = &num_released,
                                   .all_gather = gather,
                                   .all_to_all = scatter,
                                   .all_reduce_sum = sum,
                                   .all_reduce_max = max,
                                   .release = release};
  tg_communicator* communicator = NULL;
  tg_exchange* exchange = NULL;
  OK(tg_communicator_custom(&ops, &communicator));
  OK(tg_exchange_create(plan, communicator, "seed=3 memory=ef", NULL, &exchange));
  tg_plan_destroy(plan);
  tg_communicator_destroy(communicator);
  const tg_array of_workers[NUM_WORKERS] = {array_of(gradients[0]), array_of(gradients[1])};
  const tg_array mean = array_of(exchanged);
  const int32_t tensor = 0;
  OK(tg_exchange_begin(exchange, 7));
  OK(tg_exchange_part(exchange, &tensor, 1, of_workers, &mean, NULL));
  OK(tg_exchange_finish(exchange, NULL));
  int num_states = 0;
  OK(tg_exchange_state(exchange, count_states, &num_states));
  CHECK(num_states == NUM_WORKERS);
  CHECK(num_released == 0);
  tg_exchange_destroy(exchange);
  CHECK(num_released == 1);
  CHECK(memcmp(by_hand, exchanged, sizeof(exchanged)) == 0);

  CHECK(tg_plan_create(NULL, 1, NULL, &plan) == TG_INVALID_ARGUMENT);
  CHECK(strcmp(tg_last_error(), "layout is NULL") == 0);
  return 0;
}
