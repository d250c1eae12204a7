-- An expectation holds for the versions that it names, until its last day or its version has come.
--
-- It matches a result that ends as it says: with its outcome, in its stage, and with its pattern in the text. `pending`
-- is the reason of the first expectation that holds, `matching` the reason of the first that also matches, and `ended`
-- has the ends of the expectations that match and are over.
CREATE OR REPLACE TEMP TABLE expected AS
SELECT planned, arg_min(reason, place) FILTER (NOT is_over) AS pending,
       arg_min(reason, place) FILTER (NOT is_over AND matches) AS matching,
       coalesce(list(until ORDER BY place) FILTER (is_over AND matches), []) AS ended
FROM (
    SELECT p.planned, e.place, e.reason, e.until, h.is_over,
           m.record IS NOT NULL AND e.outcome = d.outcome AND e.stage = c.stage AS matches
    FROM planned p
    JOIN deciding d USING (planned)
    JOIN cases c ON c.record = d.record
    JOIN plan_expectations e ON e.rules = p.rules
    JOIN holding_rules h ON h.rules = e.rules AND h.place = e.place AND h.job = d.job
    LEFT JOIN matching_rules m ON m.record = d.record AND m.place = e.place
)
GROUP BY planned;
