/* A counter of instructions (Cortex-M, RV32) or of 8 cycles (AVR), and output, on a bare emulator. */
#if defined(__AVR__)
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>
#define COUNTER_MASK 0xFFFFu /* timer 1, a tick every 8 cycles */
static void counter_start(void) { TCCR1A = 0; TCCR1B = 1 << CS11; }
static uint32_t counter(void) { return TCNT1; }
static void put(char c)
{
    while (!(UCSR0A & (1 << UDRE0))) {}
    UDR0 = (uint8_t)c;
}
static void spin(uint16_t turns) { (void)turns; }
#else
#include <stdio.h>
static void put(char c) { putchar(c); }
#if defined(__arm__)
#define COUNTER_MASK 0xFFFFFFu /* SysTick counts down */
#define SYSTICK ((volatile uint32_t *)0xE000E010u)
static void counter_start(void) { SYSTICK[1] = 0xFFFFFFu; SYSTICK[2] = 0; SYSTICK[0] = 5; }
static uint32_t counter(void) { return 0xFFFFFFu - SYSTICK[2]; }
static void spin(uint32_t turns) { __asm__ volatile(".syntax unified\n1: subs %0, %0, #1\n bne 1b" : "+l"(turns) : : "cc"); }
#else
#define COUNTER_MASK 0xFFFFFFFFu
static void counter_start(void) {}
static uint32_t counter(void) { uint32_t n; __asm__ volatile("rdinstret %0" : "=r"(n)); return n; }
static void spin(uint32_t turns) { __asm__ volatile("1: addi %0, %0, -1\n bnez %0, 1b" : "+r"(turns)); }
#endif
#endif

static uint32_t since(uint32_t start)
{
    return (counter() - start) & COUNTER_MASK;
}

static void print(uint32_t number)
{
    char digits[10];
    uint8_t length = 0;
    do
        digits[length++] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    while (length)
        put(digits[--length]);
    put(' ');
}

/* Return the ticks of 20000 instructions. */
static uint32_t calibrate(void)
{
    uint32_t start = counter(), base;
    spin(1000);
    base = since(start);
    start = counter();
    spin(11000);
    return since(start) - base;
}

/* End the line; on AVR also sleep forever, which ends the emulator. */
static void finish(void)
{
    put('\n');
#if defined(__AVR__)
    while (!(UCSR0A & (1 << UDRE0))) {}
    cli();
    sleep_mode();
#endif
}
