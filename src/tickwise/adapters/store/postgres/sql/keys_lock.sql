-- Nobody else changes keys until the transaction ends; they can be read.
LOCK TABLE tickwise.keys IN SHARE ROW EXCLUSIVE MODE
