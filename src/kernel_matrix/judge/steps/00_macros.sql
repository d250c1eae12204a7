-- Macros that the steps share.

-- The reason of a state: a code and its arguments. judge/reasons.py makes a sentence of them.
CREATE OR REPLACE TEMP MACRO because(code, arguments) AS {'code': code, 'arguments': arguments::VARCHAR[]};

-- The middle of n sorted numbers.
CREATE OR REPLACE TEMP MACRO median_of(sorted, n) AS (sorted[(n + 1) // 2] + sorted[n // 2 + 1]) / 2;

-- The distance from 1 to the next number of fp32, and from any other number.
CREATE OR REPLACE TEMP MACRO epsilon() AS pow(2.0::DOUBLE, -23);
CREATE OR REPLACE TEMP MACRO spacing_at(number) AS
    CASE WHEN number > 0 THEN epsilon() * pow(2.0::DOUBLE, floor(log2(number))) ELSE 0 END;

-- Whether the limit that a record names is the one that matrix.yaml makes of its figures.
CREATE OR REPLACE TEMP MACRO is_same_limit(named, made) AS
    isfinite(made) AND abs(named - made) <= 1e-9::DOUBLE * greatest(abs(named), abs(made));

-- A figure that cannot be, with its name; null if it can.
CREATE OR REPLACE TEMP MACRO impossible(name, number, can_be) AS
    CASE WHEN NOT (isfinite(number) AND number >= 0 AND can_be) THEN [name, number::VARCHAR] END;
-- A figure, with its name, that is too far from the other results' figure; null if it is near enough.
CREATE OR REPLACE TEMP MACRO far(name, number, usual, part) AS
    CASE WHEN abs(coalesce(number, 0) - usual) > part * abs(usual)
        THEN [name, coalesce(number, 0)::VARCHAR, usual::VARCHAR] END;
