/* A frame that exceptions cannot pass: compiled without unwind tables, as a foreign kernel might
 * be. */

void scenario_call(void (*fn)(void *), void *argument);
extern volatile int scenario_sink;
volatile int scenario_sink;

void scenario_call(void (*fn)(void *), void *argument) {
  fn(argument);
  scenario_sink = 1; /* prevents a tail call */
}
