/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of tile products in a pipeline: while the tiles of a step are multiplied, those of the step
 * before are stored, and what the one before that has stored is scaled and added up. Stores of
 * tiles that are not finished would keep everything behind them out of the processor's queues.
 *
 * Included after packed_rows (16 activation rows), weight_column (16 weight rows), LOAD_ROWS(a, g),
 * which loads activations, and MULTIPLY_COLUMN(sums, column, g), which multiplies them with a
 * column and adds to a tile; those two have tiles 1 to 4. Tiles 0 and 5 hold the sums of even
 * steps, 6 and 7 those of odd ones.
 */

/* What the tiles of sums of a step are for: two columns, groups [g, end) of them, which are of one
 * block. */
typedef struct step {
    const weight_column *b;
    size_t g, end;
    float *c;
    bool accumulate;
} step;

/* Scale the sums of column j of a step, float or int32, and add them to its c. */
INLINE void add_scaled(const packed_rows *a, const step *s, size_t j, const void *sums);

typedef float tile_sums[2][SIDE * SIDE]; /* or int32 */

/* Tile numbers are part of the instructions, hence a macro. `before` and `old` are NULL in the
 * first steps, `now` in the last two. */
#define DEFINE_STEP(name, left, right, left_before, right_before)                                  \
    INLINE void name(const packed_rows *a, const step *now, const step *before, const step *old,   \
                     tile_sums stored, tile_sums ready)                                            \
    {                                                                                              \
        if (now) {                                                                                 \
            _tile_zero(left);                                                                      \
            LOAD_ROWS(a, now->g);                                                                  \
            MULTIPLY_COLUMN(left, now->b[0], now->g);                                              \
        }                                                                                          \
        if (before)                                                                                \
            _tile_stored(left_before, stored[0], SIDE * sizeof(float));                            \
        if (old)                                                                                   \
            add_scaled(a, old, 0, ready[0]);                                                       \
        if (now) {                                                                                 \
            _tile_zero(right);                                                                     \
            MULTIPLY_COLUMN(right, now->b[1], now->g);                                             \
        }                                                                                          \
        if (before)                                                                                \
            _tile_stored(right_before, stored[1], SIDE * sizeof(float));                           \
        if (old)                                                                                   \
            add_scaled(a, old, 1, ready[1]);                                                       \
        for (size_t g = now ? now->g + 1 : 1; now && g < now->end; g++) {                          \
            LOAD_ROWS(a, g);                                                                       \
            MULTIPLY_COLUMN(left, now->b[0], g);                                                   \
            MULTIPLY_COLUMN(right, now->b[1], g);                                                  \
        }                                                                                          \
    }

DEFINE_STEP(even_step, 0, 5, 6, 7)
DEFINE_STEP(odd_step, 6, 7, 0, 5)

static void run_steps(const packed_rows *a, const step *steps, size_t count)
{
    _Alignas(64) tile_sums sums[2];
    for (size_t t = 0; t < count + 2; t++) {
        const step *now = t < count ? &steps[t] : NULL;
        const step *before = t >= 1 && t <= count ? &steps[t - 1] : NULL;
        const step *old = t >= 2 ? &steps[t - 2] : NULL;
        if (t % 2 == 0)
            even_step(a, now, before, old, sums[1], sums[0]);
        else
            odd_step(a, now, before, old, sums[0], sums[1]);
    }
}
