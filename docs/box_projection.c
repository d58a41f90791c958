/* A solver in C for `convexstruct verify "./box_projection {case} {answer}" --on box-planted`: the projection of m onto
 * {lower <= a <= upper, <s, a> = z} in the norm with weights d. The multiplier rho of the equality is found by
 * bisection: a_i(rho) = clip(m_i - rho s_i / d_i^2, lower_i, upper_i), and <s, a(rho)> never rises with rho.
 * Each number or array NAME of the case is the file CASE.NAME.csv; one number stands for as many as there are in m. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double *numbers(const char *path, const char *name, int *n) {
    char file[4096];
    double *x = NULL, next;
    int count = 0;
    snprintf(file, sizeof file, "%s.%s.csv", path, name);
    FILE *in = fopen(file, "r");
    if (!in) { perror(file); exit(1); }
    for (; fscanf(in, "%lf", &next) == 1; x[count++] = next) x = realloc(x, (count + 1) * sizeof *x);
    fclose(in);
    if (*n == 0) *n = count;
    for (x = realloc(x, (*n + 1) * sizeof *x); count < *n; count++) x[count] = x[0];
    return x;
}

int main(int argc, char **argv) {
    if (argc != 3) { fprintf(stderr, "usage: %s CASE ANSWER\n", argv[0]); return 2; }
    int n = 0, one = 1;
    double *m = numbers(argv[1], "m", &n), *z = numbers(argv[1], "z", &one), *a = malloc(n * sizeof *a);
    double *lower = numbers(argv[1], "lower", &n), *upper = numbers(argv[1], "upper", &n);
    double *s = numbers(argv[1], "s", &n), *d = numbers(argv[1], "d", &n), low = -1e15, high = 1e15;
    for (int round = 0; round < 200; round++) {
        double rho = (low + high) / 2, sum = 0;
        for (int i = 0; i < n; i++) {
            a[i] = fmin(fmax(m[i] - rho * s[i] / (d[i] * d[i]), lower[i]), upper[i]);
            sum += s[i] * a[i];
        }
        *(sum > *z ? &low : &high) = rho;
    }
    FILE *out = fopen(argv[2], "w");
    if (!out) { perror(argv[2]); return 1; }
    for (int i = 0; i < n; i++) fprintf(out, "%.17g\n", a[i]);
    return fclose(out) ? 1 : 0;
}
